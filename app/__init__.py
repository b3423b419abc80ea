"""The service: the pure domain, the database, the API and the pages."""
