package command

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/manifest"
)

func versionCommand() *Command {
	c := New("version", NeedsNothing, "print the version of this program, and of the files that it writes",
		"Prints the commit, the version of Go that built the program, and the version of the store's files.")
	return c.Does(func(_ context.Context, s *Session, _ []Word) (Status, error) {
		g := output.NewGrid("what", "version")
		version, commit := built()
		g.Row("shale", version)
		g.Row("commit", commit)
		g.Row("Go", fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH))
		g.Row("files of a store", fmt.Sprint(manifest.FormatVersion))
		return Found, s.Show(g)
	})
}

// built returns the version and the commit from which the program was built.
func built() (version, commit string) {
	version, commit = "unknown", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			commit = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			commit += ", and changes"
		}
	}
	return version, commit
}
