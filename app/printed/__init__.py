"""A report to be read away from the service: as Markdown, and as one HTML file to print."""
