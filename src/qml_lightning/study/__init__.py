"""Studies: learning curves and searches of many fits, checks and statistics of data, vibrations of a molecule."""
