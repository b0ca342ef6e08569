package shell

import (
	"github.com/shaledb/shale/cmd/shale/internal/command"
	"github.com/shaledb/shale/cmd/shale/internal/output"
)

// PromptCommands are those that set how commands are run, or run commands.
func PromptCommands() []command.Group {
	return []command.Group{{Title: "Prompt and scripts", Commands: []command.Command{
		{Name: ".mode", Words: "[MODE]", Least: 0, Most: 1, Access: command.NeedsNothing, Run: setMode,
			Values: output.DisplayNames,
			Short:  "lay out what is printed, or tell how it is laid out",
			Long: "text, which is how it begins: tables in columns, keys and values as words with tabs between them\n" +
				"box: drawn with lines, and cut to the width of the terminal\n" +
				"lines: title = value, a line for each\n" +
				"hex: as text, with keys and values in hexadecimal\n" +
				"json: one array of objects; jsonl: an object a line. Sizes are bytes, times seconds, percentages\n" +
				"shares of 1. A key or value that is not UTF-8 is in base64, under its title with 64 behind it.\n" +
				"csv: as RFC 4180 has it, with a line of titles. A key or value is as it is; if it has what can't be\n" +
				"seen, or begins with a quote, it is a quoted word.\n" +
				"tsv: words with tabs between them, with a line of titles\n\n" +
				"--mode MODE does the same for one command, before or behind it."},
		{Name: ".timer", Words: "[on|off]", Least: 0, Most: 1, Access: command.NeedsNothing, Run: setTimer,
			Short: "tell how long each command took",
			Long:  "Prints the time after each command, on standard error. --timer does the same for one command."},
		{Name: ".explain", Words: "[on|off]", Least: 0, Most: 1, Access: command.NeedsNothing, Run: setExplain,
			Short: "tell in a line how each get went",
			Long: "Prints after each get, on standard error, how many places and levels were asked, what their filters said,\n" +
				"the blocks read, and the time. explain KEY tells it place by place."},
		{Name: ".watch", Words: "TIME COMMAND...", Least: 2, Most: -1, Nested: true, Access: command.NeedsNothing, Run: watch,
			Short: "run a command again and again, until Ctrl-C",
			Long: "TIME is 500ms, 1s, 1m. Where the store is open read-only, it is opened anew each time, so that what another\n" +
				"program writes is seen."},
		{Name: ".source", Words: "FILE", Least: 1, Most: 1, Nested: true, Access: command.NeedsNothing, Run: source,
			Short: "run the commands in a file",
			Long:  "Stops at the first error, which it tells with the line of the file."},
		{Name: ".help", Words: "[COMMAND]", Least: 0, Most: 2, Access: command.NeedsNothing, Run: command.Help,
			Short: "the same as help"},
		{Name: ".quit", Least: 0, Most: 0, Access: command.NeedsNothing, Run: command.Quit,
			Short: "the same as quit"},
	}}}
}
