"""Pages for people: server-rendered, working without scripts, live where a browser allows it."""
