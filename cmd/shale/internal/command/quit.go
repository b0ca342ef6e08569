package command

import "context"

// quitCommand ends a script or a prompt.
//
// It ends a script with the highest status of the commands before it.
func quitCommand() *Command {
	c := newCommand("quit", needsNothing, "leave; exit and Ctrl-D do the same", "")
	c.txn = notBatch
	c.Aliases = []string{"exit", ".quit"}
	return c.does(func(context.Context, *Session, []Word) (Status, error) { return Found, ErrQuit })
}
