package command

// A Group is a heading of the table of commands.
type Group struct {
	Title    string
	Commands []Command
}

// Table returns the commands.
func (s *Session) Table() []Group {
	return append([]Group{
		{"Data", dataCommands()},
		{"Files", fileCommands()},
		{"Jobs", jobCommands()},
		{"Insight", Join(insightCommands(), inspectCommands(), pageCommands())},
		{"Care", Join(careCommands(), reportCommands())},
		{"This program", ownCommands()},
	}, s.More...)
}

// lookup returns the command of a name, or nil.
func (s *Session) lookup(name string) *Command {
	for _, g := range s.Table() {
		for i := range g.Commands {
			if g.Commands[i].Name == name {
				return &g.Commands[i]
			}
		}
	}
	return nil
}

// CommandOf returns the command that words begin with, or nil, and the words
// behind its name, which has one or two of them.
func (s *Session) CommandOf(words []Word) (*Command, []Word) {
	if len(words) > 1 && !words[1].Literal {
		if c := s.lookup(words[0].Text + " " + words[1].Text); c != nil {
			return c, words[2:]
		}
	}
	return s.lookup(words[0].Text), words[1:]
}

func Join[T any](lists ...[]T) []T {
	var all []T
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
