"""What people read: sheets, and later pages and reports."""
