package command

import "context"

func reopenCommand() *Command {
	c := New("reopen", NeedsNothing, "open the store again", `
Next to a program that writes, a read-only prompt shows the state of the time when it opened the
store. reopen shows the newest, and opens for writing if that has become possible.`)
	return c.Does(func(_ context.Context, s *Session, _ []Word) (Status, error) {
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
