package command

import "context"

func reopenCommand() *Command {
	c := newCommand("reopen", needsNothing, "open the store again", `
If another program has the store open for writing, a prompt is read-only, and each command sees what that
program has written until then. reopen opens the store for writing if that is possible now.`)
	return c.does(func(_ context.Context, s *Session, _ []Word) (Status, error) {
		if err := s.Close(); err != nil {
			return Failed, err
		}
		if err := s.OpenFor("reopen", Reads); err != nil {
			return Failed, err
		}
		if s.writable {
			s.Say("open for writing")
		}
		return Found, nil
	})
}
