package vfs_test

import (
	"fmt"

	"github.com/shaledb/shale/vfs"
)

// A file that was synced is found after a power cut only if its name was
// synced too.
func ExampleMem_Crash() {
	m := vfs.NewMem()
	for _, name := range []string{"a", "b"} {
		f, err := m.Create(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Fprint(f, "synced")
		f.Sync()
		fmt.Fprint(f, " and not")
		f.Close()
		if name == "a" {
			m.SyncDir(".")
		}
	}
	for _, c := range []vfs.CrashConfig{
		{Policy: vfs.DropAll, Names: vfs.NamesDrop},
		{Policy: vfs.KeepAll, Names: vfs.NamesKeep},
	} {
		after := m.Crash(c)
		names, _ := after.List(".")
		info, _ := after.Stat("a")
		fmt.Printf("%v %v: %v, a has %d bytes\n", c.Policy, c.Names, names, info.Size)
	}
	// Output:
	// DropAll NamesDrop: [a], a has 6 bytes
	// KeepAll NamesKeep: [a b], a has 14 bytes
}
