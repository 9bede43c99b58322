"""Models: the portfolio, the clients that call them, and the server of the embedded one."""
