package command

func ownCommands() []Command {
	return []Command{
		{Name: "reopen", Least: 0, Most: 0, Access: NeedsNothing, Run: reopen,
			Short: "open the store anew",
			Long: "Beside a program that writes, a read-only prompt shows the state of the time when it opened the\n" +
				"store. reopen shows the newest, and opens for writing if that has become possible."},
		{Name: "help", Words: "[COMMAND]", Least: 0, Most: 2, Access: NeedsNothing, Run: Help,
			Short: "list the commands, or explain one"},
		{Name: "quit", Least: 0, Most: 0, Access: NeedsNothing, Run: Quit,
			Short: "leave; Ctrl-D does the same"},
		{Name: "exit", Least: 0, Most: 0, Access: NeedsNothing, Run: Quit,
			Short: "the same as quit"},
	}
}
