// Package server answers clients of Redis (RESP2 and RESP3) from a member of a replicated group.
//
// # Guarantees
//
//   - A write that was answered with OK or a number was done as the Group promises it, and a read sees every write
//     that was answered before the read was asked for, unless Config.Local is set.
//   - What a write's answer says about keys, as in DEL and SET NX, is decided where the group applies the write, so it
//     is right however many clients write.
//   - The commands of a connection take effect in their order. A run of commands in a pipeline that are all
//     reads is done at one read of the group; one of plain SETs and MSETs, or of DELs, is one write.
//   - A write that was answered with an error has not happened, unless the error begins with UNKNOWN.
//
// It knows no expiry, one database and one type of value: strings.
package server
