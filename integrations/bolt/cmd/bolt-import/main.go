// Bolt-import makes a store of shale from a file of bbolt, for programs that use package
// github.com/shaledb/shale/integrations/bolt:
//
//	bolt-import FILE DIRECTORY
//
// FILE is only read, and must not be open for writing elsewhere. DIRECTORY must not be there. It has all buckets, keys, values
// and sequences of the file, and opens under the name that the program gives to Open.
package main

import (
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	bbolt "github.com/shaledb/shale/integrations/bolt"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bolt-import FILE DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "bolt-import:", err)
		os.Exit(1)
	}
}

// run imports a file, and prints how much there was.
func run(file, dir string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	// A file that is not there would be created, and one that is open elsewhere waited for.
	from, err := bolt.Open(file, 0, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer from.Close()
	began := time.Now()
	err = from.View(func(tx *bolt.Tx) error { return bbolt.Import(dir, info.Mode().Perm(), tx.Cursor().Bucket()) })
	if err != nil {
		return err
	}
	to, err := bbolt.Open(dir, 0, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer to.Close()
	return to.View(func(tx *bbolt.Tx) error {
		fmt.Printf("%s: %s of %s, in %s\n", dir, size(tx.Size()), size(info.Size()), time.Since(began).Round(time.Millisecond))
		return nil
	})
}

func size(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
