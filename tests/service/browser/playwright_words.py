"""Playwright's `expect`, or a reason to skip. Waits are long."""

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'bottega[browser]'").expect
expect.set_options(timeout=20_000)  # what must come comes; on a busy machine it comes later
