package main

// A group is a heading of the table of commands.
type group struct {
	title    string
	commands []command
}

// table returns the commands.
func (s *session) table() []group {
	return append([]group{
		{"Data", dataCommands()},
		{"Files", fileCommands()},
		{"Jobs", jobCommands()},
		{"Insight", join(insightCommands(), inspectCommands(), pageCommands())},
		{"Care", join(careCommands(), reportCommands())},
		{"This program", ownCommands()},
	}, s.more...)
}

// lookup returns the command of a name, or nil.
func (s *session) lookup(name string) *command {
	for _, g := range s.table() {
		for i := range g.commands {
			if g.commands[i].name == name {
				return &g.commands[i]
			}
		}
	}
	return nil
}

// commandOf returns the command that words begin with, or nil, and the words
// behind its name, which has one or two of them.
func (s *session) commandOf(words []word) (*command, []word) {
	if len(words) > 1 && !words[1].literal {
		if c := s.lookup(words[0].text + " " + words[1].text); c != nil {
			return c, words[2:]
		}
	}
	return s.lookup(words[0].text), words[1:]
}

func join[T any](lists ...[]T) []T {
	var all []T
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
