"""The command ``verdraft manifest``: manifests as files, without a service."""
