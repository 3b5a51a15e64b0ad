"""Playwright's `expect`, or a reason to skip."""

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'bottega[browser]'").expect
