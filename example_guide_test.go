package shale_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/typed"
)

// The bodies of the functions of this file, down to useMap, are the code of docs/GUIDE.md, in this order: TestGuide_Code
// compares them.

func openAndClose(dir string, work func(db *shale.DB) error) error {
	db, err := shale.Open(dir, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	return work(db)
}

func getOrPut(db *shale.DB) error {
	server, err := db.Get([]byte("www.example.org"))
	if errors.Is(err, shale.ErrNotFound) {
		return db.Put([]byte("www.example.org"), []byte("nginx"))
	}
	fmt.Printf("%s\n", server)
	return err
}

func writeBatch(ctx context.Context, db *shale.DB) error {
	var b shale.Batch
	if err := errors.Join(b.Put([]byte("www.iana.org"), []byte("Apache")), b.Delete([]byte("iana.org"))); err != nil {
		return err
	}
	return db.Write(ctx, &b)
}

func list(r shale.Reader) error {
	for entry, err := range r.Scan(shale.Prefix("www.")) {
		if err != nil {
			return err
		}
		fmt.Printf("%s = %s\n", entry.Key, entry.Value)
	}
	return nil
}

func listOldState(db *shale.DB) error {
	then, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer then.Close()
	return errors.Join(db.Delete([]byte("www.iana.org")), list(then))
}

func claim(db *shale.DB) error {
	mine, err := db.PutIfAbsent([]byte("claims/www.example.org"), []byte("worker 7"))
	if err != nil || !mine {
		return err
	}
	return fetch("www.example.org")
}

func login(db *shale.DB) error {
	return db.PutTTL([]byte("sessions/4f1c"), []byte("ada"), 20*time.Minute)
}

func rename(ctx context.Context, db *shale.DB) error {
	return db.Update(ctx, func(tx *shale.Txn) error {
		server, err := tx.Get([]byte("www.example.org"))
		if err != nil {
			return err
		}
		return errors.Join(tx.Delete([]byte("www.example.org")), tx.Put([]byte("www.example.com"), server))
	})
}

func backUp(db *shale.DB, dir string) error {
	return db.Checkpoint(dir)
}

func useMap(db *shale.DB) error {
	type user struct{ Name, City string }
	users := typed.NewMap("users", typed.Uint64, typed.JSON[user]())
	if err := users.Put(db, 7, user{"Ada", "London"}); err != nil {
		return err
	}
	ada, err := users.Get(db, 7)
	fmt.Println(ada.City)
	return err
}

// fetch stands for what a crawler does.
func fetch(host string) error {
	fmt.Println("fetching", host)
	return nil
}

// A program does the ten tasks of docs/GUIDE.md, and looks into the backup. A task whose second run gives another answer
// runs twice.
func Example_guide() {
	temp, err := os.MkdirTemp("", "shale")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(temp)
	ctx, backup := context.Background(), filepath.Join(temp, "backup.db")
	fmt.Println(openAndClose(filepath.Join(temp, "hosts.db"), func(db *shale.DB) error {
		return errors.Join(
			getOrPut(db), getOrPut(db), writeBatch(ctx, db), list(db), listOldState(db), claim(db), claim(db),
			login(db), rename(ctx, db), backUp(db, backup), useMap(db))
	}))
	fmt.Println(openAndClose(backup, func(db *shale.DB) error {
		for entry := range db.Scan(shale.Range{}) {
			fmt.Printf("%s = %s, expires: %v\n", entry.Key, entry.Value, !entry.ExpiresAt.IsZero())
		}
		return nil
	}))
	// Output:
	// nginx
	// www.example.org = nginx
	// www.iana.org = Apache
	// www.example.org = nginx
	// www.iana.org = Apache
	// fetching www.example.org
	// London
	// <nil>
	// claims/www.example.org = worker 7, expires: false
	// sessions/4f1c = ada, expires: true
	// www.example.com = nginx, expires: false
	// <nil>
}
