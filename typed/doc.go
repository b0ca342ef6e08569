// Package typed stores values of Go types in a store of package shale: a Map has keys and values of two types, an Index
// finds its entries by what their values say, and Add counts. They are views: a Map is declared once, as a variable of a
// package, and each call gets the Reader or Writer that it works on.
//
//	var (
//		users   = typed.NewMap("users", typed.Uint64, typed.JSON[User]())
//		byEmail = typed.NewIndex(users, "email", typed.String, func(u User) string { return u.Email }).Unique()
//		byCity  = typed.NewIndex(users, "city", typed.String, func(u User) string { return u.City })
//	)
//
//	err := db.Update(ctx, func(tx *shale.Txn) error { return users.Put(tx, 7, user) })
//	for found, err := range byCity.Scan(db, typed.Only("Berlin")) { … }
//
// # What holds
//
// Put and Delete change an entry and all indexes of its map together, so they need a transaction. That is a *shale.Txn,
// a part of it (Txn.Sub), a *cluster.Txn, or whatever else has a method Untracked. Only a map without indexes is written
// by way of a DB or a Batch as well. After an error that wraps ErrNotUnique or ErrNotBuilt, or that a codec returns,
// nothing was changed. After any other one, such as that of a transaction that has grown too large, it must be discarded,
// as Update does if its function returns the error.
//
// The store knows which indexes of a map are complete. When an index was added to a map that has entries, or taken away,
// transactions that write the map, and scans of the new index, return ErrNotBuilt until Build has been called. So an
// index never misses an entry in silence, also after an older program has been back for a while. Writes by way of a
// Batch, or a Sub of a DB, can't be asked, and change no index.
//
// Reads work on every Reader. A scan shows one state, also on a DB that is written meanwhile.
//
// Keys sort in the store as their values do. Bytes that are no key or no value of a map give an error that names the map
// and the key, and so does a value that a codec can't store. docs/FORMAT.md has the bytes.
//
// # Costs
//
// Has and Get allocate nothing but what the codec of values does. Each Put or Delete, but by way of a Batch, reads a small
// key that says which indexes there are. A map with indexes reads the old value, too, and a unique index scans for the new
// one. A scan of an index reads each entry by a seek, unless Range.KeysOnly is set.
//
// All of this may be used by several goroutines at once, as far as the Reader and the Writer may.
package typed
