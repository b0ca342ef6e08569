package shale_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/shaledb/shale"
)

// A cache remembers for a minute which users a database does not have. For most keys that it does not know, its filters
// say so without a disk read. The race is the difficult part: a query finds no row, the user is created, and only then
// the query notes the absence. So create leaves a note too, and absences are noted only where there is none.
func ExampleDB_PutIfAbsentTTL() {
	cache := open()
	defer cache.Close()
	rows := map[string]string{} // stands for the database
	queries := 0

	absent, there := []byte("absent"), []byte("there")
	find := func(id string) (profile string, known bool, err error) {
		key := []byte(id)
		switch note, err := cache.Get(key); {
		case err == nil && string(note) == string(absent):
			return "", false, nil
		case err != nil && !errors.Is(err, shale.ErrNotFound):
			return "", false, err
		}
		queries++
		if profile, known = rows[id]; !known {
			_, err = cache.PutIfAbsentTTL(key, absent, time.Minute)
		}
		return profile, known, err
	}
	create := func(id, profile string) error {
		rows[id] = profile
		// The note has to outlast the queries that are under way.
		return cache.PutTTL([]byte(id), there, time.Minute)
	}

	for range 3 {
		_, known, err := find("ada")
		fmt.Println(known, err, queries)
	}
	fmt.Println(create("ada", "analyst"))
	fmt.Println(find("ada"))
	// Output:
	// false <nil> 1
	// false <nil> 1
	// false <nil> 1
	// <nil>
	// analyst true <nil>
}

// Which visitors were here in the last 30 days? A visit renews the time only when less than half of it is left, so one who
// comes each day is written twice a month. In return a visit may count for only 15 days: put 60 if it must count for 30.
func ExampleDB_ExpiresAt() {
	visitors := open()
	defer visitors.Close()
	const month = 30 * 24 * time.Hour
	visit := func(id string) (seen, written bool, err error) {
		until, err := visitors.ExpiresAt([]byte(id))
		seen = err == nil
		if err != nil && !errors.Is(err, shale.ErrNotFound) {
			return false, false, err
		}
		if seen && time.Until(until) > month/2 {
			return true, false, nil
		}
		return seen, true, visitors.PutTTL([]byte(id), nil, month)
	}

	// Ada's time was renewed 10 days ago, Bob's 20 days ago.
	for id, ago := range map[string]time.Duration{"ada": 10, "bob": 20} {
		if err := visitors.PutTTL([]byte(id), nil, month-ago*24*time.Hour); err != nil {
			log.Fatal(err)
		}
	}
	for _, id := range []string{"ada", "bob", "cleo"} {
		seen, written, err := visit(id)
		fmt.Println(id, seen, written, err)
	}
	// Output:
	// ada true false <nil>
	// bob true true <nil>
	// cleo false true <nil>
}

// A session ends 20 minutes after its last use. Those of one user have a prefix in common.
func ExampleDB_PutTTL() {
	db := open()
	defer db.Close()
	const life = 20 * time.Minute
	prefix := func(user string) string { return "sessions/" + user + "/" } // no name of a user has a slash
	login := func(user, id, from string) {
		if err := db.Sub(prefix(user)).PutTTL([]byte(id), []byte(from), life); err != nil {
			log.Fatal(err)
		}
	}
	// Without the transaction, a session could come back that is ended between Get and PutTTL.
	use := func(user, id string) error {
		return db.Update(context.Background(), func(tx *shale.Txn) error {
			sessions := tx.Sub(prefix(user))
			from, err := sessions.Get([]byte(id))
			if err != nil {
				return err // ErrNotFound: it has ended, or never was
			}
			return sessions.PutTTL([]byte(id), from, life)
		})
	}
	list := func(user string) {
		for e, err := range db.Sub(prefix(user)).Scan(shale.Range{}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s: %s from %s, ends in %v\n", user, e.Key, e.Value, time.Until(e.ExpiresAt).Round(time.Minute))
		}
	}

	login("ada", "4f1c", "her phone")
	login("ada", "9b07", "the office")
	login("bob", "a3d2", "his car")
	fmt.Println(use("ada", "9b07"))
	list("ada")
	fmt.Println(db.Sub(prefix("ada")).DeleteRange(nil, nil)) // logs her out everywhere
	fmt.Println(errors.Is(use("ada", "9b07"), shale.ErrNotFound))
	list("ada")
	list("bob")
	// Output:
	// <nil>
	// ada: 4f1c from her phone, ends in 20m0s
	// ada: 9b07 from the office, ends in 20m0s
	// <nil>
	// true
	// bob: a3d2 from his car, ends in 20m0s
}
