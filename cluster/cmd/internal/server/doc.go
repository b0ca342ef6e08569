// Package server answers clients of Redis (RESP2 and RESP3) from a Store: one of this process alone, or a member of a
// replicated group.
//
// # Guarantees
//
//   - A write that was answered with OK or a number was done as the Store promises it, and a read sees every write
//     that was answered before the read was asked for, unless Config.Local is set.
//   - What a write's answer says about keys, as in DEL and SET NX, is decided where the store applies the write, so it
//     is right however many clients write.
//   - The commands of a connection take effect in their order. A run of commands in a pipeline that are all reads is
//     done at one read of the store; one of SETs and MSETs without conditions, or of DELs, is one write; one of other
//     writes is one transaction.
//   - The commands between MULTI and EXEC are one transaction, also in the eyes of other clients.
//   - A write that was answered with an error has not happened, unless the error begins with UNKNOWN.
//
// It offers one database and two types of values: strings, which may expire and have up to 512 MiB, and Bloom filters. layout.go has what the
// store keeps for them.
//
// # How a command goes
//
// Package resp reads the protocol, and serve gets a command and all others that the client has sent with it. run takes as
// many of them as go together, has them done, and appends their replies to the output, which is sent when the pipeline ends.
// For example, a client sends in one packet
//
//	SET a 1
//	SET b 2
//	GET a
//	DEL a c
//	SET b 3 XX
//
// The two SETs are one batch of two puts, and so one entry in the log of a group. The GET is one read, which begins
// after that write was answered. The DEL is another write, and its answer, 1, comes from the store. The last SET has to
// know what is there, so it is a transaction, which is done again if another client changes that meanwhile.
//
// # Limits
//
// A connection has one goroutine. Config.MaxCommand bounds its commands, Config.MaxReply the reply to an MGET, and
// Config.MaxBuffers what all clients together may keep in memory: commands, replies, and what waits for EXEC. In a long
// pipeline replies are sent from time to time. Config.MaxClients bounds the connections. So the memory of the server is
// bounded, whatever clients send, and whether they read or not.
//
// # Errors
//
// Errors of the store come through Config.Explain, which puts them into words of Redis. All other
// errors are made here, with the texts of Redis where it has one, because clients compare some of
// them.
package server
