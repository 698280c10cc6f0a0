"""What people look at. Reads numbers and findings, never imports torch."""
