// Package resp is what a server needs around a parser of the protocol of Redis (RESP) that has no limits of
// its own, such as github.com/tidwall/redcon: a Guard that reads the heads of commands before the parser
// does, a Listener whose connections have one and end in an orderly way, and the patterns of SCAN.
//
// It imports only the standard library, so that the module of the store does not need a parser. The server
// in examples/redis uses it, and shaled in cluster/cmd.
package resp
