"""What conducting costs beside measuring, and how many blocks one host conducts at once."""
