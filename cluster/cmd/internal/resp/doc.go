// Package resp is the protocol of Redis (RESP) as a server speaks it: a Listener admits connections and ends them in an
// orderly way, a Conn reads commands and keeps to limits meanwhile, and Replies are answers in RESP2 and RESP3.
//
// What a command does is the business of package server. No parser of others is used: that of github.com/tidwall/redcon
// has no limits, so another one had to read all heads before it, and it copies each command.
//
// # Limits
//
// Each connection has a small buffer for commands and another for replies. Larger ones take their bytes from a Budget that all
// connections share. If too few are left, the client gets an error that says so, and its connection ends. It also ends if the client keeps the
// server waiting: in the handshake of TLS, in a command, or because it reads no replies.
package resp
