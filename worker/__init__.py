"""The only code that touches a GPU, a process or an inference server."""
