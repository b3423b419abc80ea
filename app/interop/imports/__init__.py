"""Result files of other tools, read strictly and kept with each number's own definition."""
