"""`scaler status`: all services in a table, or one as a tree, once or live."""
