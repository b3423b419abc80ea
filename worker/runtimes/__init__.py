"""Engine runtimes: locked requirement files and how to make an environment from one."""
