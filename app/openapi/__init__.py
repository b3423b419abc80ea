"""The OpenAPI document, completed with what FastAPI cannot know: every error, and an example of everything."""
