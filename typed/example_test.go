package typed_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/typed"
	"github.com/shaledb/shale/vfs"
)

type User struct{ Email, City string }

var (
	users   = typed.NewMap("users", typed.Uint64, typed.JSON[User]())
	byEmail = typed.NewIndex(users, "email", typed.String, func(u User) string { return u.Email }).Unique()
	byCity  = typed.NewIndex(users, "city", typed.String, func(u User) string { return u.City })
)

func open() *shale.DB {
	db, err := shale.Open("db", &shale.Options{FS: vfs.NewMem()})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// A struct with two indexes is stored, found by each, and changed.
func Example() {
	db := open()
	defer db.Close()
	err := db.Update(context.Background(), func(tx *shale.Txn) error {
		if err := users.Put(tx, 7, User{"ada@example.org", "London"}); err != nil {
			return err
		}
		id, ada, err := byEmail.Get(tx, "ada@example.org")
		if err != nil {
			return err
		}
		ada.City = "Paris"
		return users.Put(tx, id, ada)
	})
	for found, err := range byCity.Scan(db, typed.Only("Paris")) {
		fmt.Println(found.Key, found.Value.Email, err)
	}
	fmt.Println(err)
	// Output:
	// 7 ada@example.org <nil>
	// <nil>
}

// A second user with the email of another one is refused, and nothing is written.
func ExampleIndex_Unique() {
	db := open()
	defer db.Close()
	err := db.Update(context.Background(), func(tx *shale.Txn) error {
		return errors.Join(users.Put(tx, 1, User{"ada@example.org", "London"}), users.Put(tx, 2, User{"ada@example.org", "Rome"}))
	})
	fmt.Println(errors.Is(err, typed.ErrNotUnique))
	_, err = users.Get(db, 1)
	fmt.Println(err == shale.ErrNotFound)
	// Output:
	// true
	// true
}

// Visits sort by user and then by time, so the last ones of a user are a short scan.
func ExampleWithFirst() {
	db := open()
	defer db.Close()
	visits := typed.NewMap("visits", typed.Tuple2(typed.String, typed.Time), typed.AsValue(typed.String))
	begin := time.Date(2024, 2, 29, 23, 59, 0, 0, time.UTC)
	for minute, page := range []string{"/", "/about", "/imprint"} {
		key := typed.Pair[string, time.Time]{First: "ada", Second: begin.Add(time.Duration(minute) * time.Minute)}
		if err := visits.Put(db, key, page); err != nil {
			log.Fatal(err)
		}
	}
	last := typed.WithFirst[time.Time]("ada").Reversed()
	last.Limit = 2
	for visit, err := range visits.Scan(db, last) {
		fmt.Println(visit.Key.Second.Format(time.DateTime), visit.Value, err)
	}
	// Output:
	// 2024-03-01 00:01:00 /imprint <nil>
	// 2024-03-01 00:00:00 /about <nil>
}

// A key of another type is stored as one that has a codec.
func ExampleConvert() {
	type ID uint64
	codec := typed.Convert(typed.Uint64, func(id ID) uint64 { return uint64(id) }, func(n uint64) (ID, error) { return ID(n), nil })
	names := typed.NewMap("names", codec, typed.AsValue(typed.String))
	db := open()
	defer db.Close()
	fmt.Println(names.Put(db, ID(300), "ada"))
	for entry, err := range names.Scan(db, typed.From(ID(256))) {
		fmt.Println(entry.Key, entry.Value, err)
	}
	// Output:
	// <nil>
	// 300 ada <nil>
}

func ExampleAddTo() {
	db := open()
	defer db.Close()
	hits := typed.NewMap("hits", typed.String, typed.Counter)
	for range 3 {
		err := db.Update(context.Background(), func(tx *shale.Txn) error {
			_, err := typed.AddTo(tx, hits, "/about", 1)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(hits.Get(db, "/about"))
	// Output: 3 <nil>
}
