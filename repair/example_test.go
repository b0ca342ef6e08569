package repair_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/repair"
	"github.com/shaledb/shale/vfs"
)

// Check says what is wrong with a store, and Run saves what is provable into a new one.
func ExampleRun() {
	ctx, fs := context.Background(), vfs.NewMem()
	db, err := shale.Open("hosts.db", &shale.Options{FS: fs})
	if err != nil {
		panic(err)
	}
	if err := errors.Join(db.Put([]byte("www.example.org"), []byte("seen")), db.Close(), fs.Remove("hosts.db/CURRENT")); err != nil {
		panic(err)
	}
	_, err = shale.Open("hosts.db", &shale.Options{FS: fs})
	fmt.Println("damaged:", errors.As(err, new(*shale.CorruptionError)))

	found, err := repair.Check(ctx, "hosts.db", &repair.Options{FS: fs})
	if err != nil {
		panic(err)
	}
	for _, f := range found.Findings {
		fmt.Println(f.File, f.Damage())
	}
	if _, err := repair.Run(ctx, "hosts.db", "saved.db", &repair.Options{FS: fs}); err != nil {
		panic(err)
	}
	saved, err := shale.Open("saved.db", &shale.Options{FS: fs})
	if err != nil {
		panic(err)
	}
	defer saved.Close()
	value, err := saved.Get([]byte("www.example.org"))
	fmt.Printf("%s %v\n", value, err)
	// Output:
	// damaged: true
	// CURRENT true
	// seen <nil>
}
