"""The dashboard: run directories shown in a browser while they grow. It only reads, and what it reads may be broken."""
