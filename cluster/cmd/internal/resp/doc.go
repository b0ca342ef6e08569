// Package resp is the protocol of Redis (RESP) as a server speaks it: a Listener admits connections and ends them in an
// orderly way, a Conn reads commands and keeps to limits meanwhile, and Replies are answers in RESP2 and RESP3.
//
// What a command does is the business of package server. No parser of others is used: that of github.com/tidwall/redcon
// has no limits, so another one had to read all heads before it, and it copies each command.
//
// # Limits
//
// A connection has a small buffer for what comes, and another for what goes, which cost nothing more. What it needs beyond
// them is taken from a Budget that all connections share. Whoever needs more than is left is told so, and its connection
// ends. So does that of a client that keeps the server waiting: within the handshake of TLS, within a command, or because
// it reads no replies.
package resp
