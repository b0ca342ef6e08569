// Package resp is what a server of the protocol of Redis (RESP) needs, such as shaled in cluster/cmd. It has
//
//   - what goes around a parser that has no limits of its own, such as github.com/tidwall/redcon: a Guard
//     that reads the heads of commands before the parser does, and a Listener whose connections have one and
//     end in an orderly way;
//   - replies in RESP2 and RESP3, and a Session, which answers the commands about the connection itself;
//   - a Table of commands, which finds them by name and answers COMMAND;
//   - SCAN: its options, its pages, its patterns, and the cursors that a server remembers.
//
// What a command does to a store is the business of package server. The package imports only the standard library.
package resp
