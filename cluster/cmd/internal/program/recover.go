package program

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/shaledb/shale/cluster"
)

// recoverCommand has two steps in one command, told apart by --survivors: without it nothing is
// changed. The text below is a procedure, because somebody who needs it has lost a majority and no
// time.
func recoverCommand(env Environment) *cobra.Command {
	var names []string
	cmd := newCommand("recover DIR... [--survivors NAME,NAME...]", "go on with a group that has lost its majority for good", `
When the disks of a majority are lost for good, the members that are left can't know what the lost ones had
acknowledged. The one that is furthest goes on alone, as a new group, and the others join it with empty folders.

1. Stop all members. Make sure that the lost ones never come back.
2. Run shaled recover DIR on each machine that has a survivor's folder. It shows how far the member is, and its name for
   step 3. It changes nothing.
3. Run shaled recover DIR --survivors NAME,NAME with the names of all survivors, the same on each machine. It says whether
   this member goes on, or whether another is further; the files of such a one are put aside, in the folder lost.
4. Start the member that goes on as ever, and the others with --join and its --listen address.

Each step may be interrupted and repeated.`, 1, 1<<10, func(_ context.Context, dirs []string) error {
		if names == nil {
			return showSurvivors(env, dirs)
		}
		return recoverMembers(env, dirs, names)
	})
	cmd.Flags().StringSliceVar(&names, "survivors", nil, "the `NAMES` of all survivors, as shaled recover DIR prints them on their machines")
	return cmd
}

// showSurvivors prints how far members are.
//
// A position is a term and an index. The survivor with the highest term, and among these with the
// highest index, has everything that the others have acknowledged.
func showSurvivors(env Environment, dirs []string) error {
	w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "member\tits log ends with\tits state with\tname")
	for _, dir := range dirs {
		s, err := cluster.ReadSurvivor(dir, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\tterm %d, entry %d\tterm %d, entry %d\t%v\n", s.ID, s.Term, s.Index, s.StateTerm, s.StateIndex, s)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(env.Out, "Nothing was changed. When all survivors have been asked, run on each machine, with the names of all of them:\n"+
		"  shaled recover DIR --survivors NAME,NAME\n")
	return err
}

// recoverMembers does for members what the positions of all survivors say.
//
// Each machine runs it with the same names, and each decides by itself whether its member is the
// one that goes on. cluster.Recover refuses names that can't be of one group.
func recoverMembers(env Environment, dirs, names []string) error {
	var survivors []cluster.Survivor
	for _, name := range names {
		s, err := cluster.ParseSurvivor(name)
		if err != nil {
			return err
		}
		survivors = append(survivors, s)
	}
	for _, dir := range dirs {
		leads, err := cluster.Recover(dir, survivors, nil)
		if err != nil {
			return err
		}
		next := "another survivor is further. Its files are in the folder lost of " + dir + ". Start it with --join and the address of that one."
		if leads {
			next = "it goes on, as the first member of a new group. Start it as ever; others join it with empty folders."
		}
		if _, err := fmt.Fprintf(env.Out, "%s: %s\n", dir, next); err != nil {
			return err
		}
	}
	return nil
}
