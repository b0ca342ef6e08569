// Package lockorder names the locks of a store in the order in which they are taken. With the build
// tag lockorder a Mutex checks the order when it is locked, and ends the process if it is wrong. Without the tag
// it is a sync.Mutex and costs nothing more.
//
// A wrong order is found the first time that it happens. Nobody has to meet the deadlock.
package lockorder

// A Lock is the type of one of the locks below. A goroutine that holds one takes only later ones.
type Lock interface{ rank() int }

// The locks, in their order.
type (
	// Lead is leading the commit queue.
	Lead struct{}
	// Flusher is the turn to flush, of memqueue.
	Flusher struct{}
	// Giving is logset.Set.giving.
	Giving struct{}
	// Editing is tree.Tree.editing.
	Editing struct{}
	// Filters is residency.Filters.mu.
	Filters struct{}
	// Changes is changes.mu.
	Changes struct{}
	// Scheduler is scheduler.Scheduler.mu.
	Scheduler struct{}
	// Tree is tree.Tree.mu.
	Tree struct{}
	// View is memqueue.Queue.mu.
	View struct{}
	// Snapshots is commit.Snapshots.mu.
	Snapshots struct{}
	// Leaf is all others: no lock of this list is taken under one.
	Leaf struct{}
)

func (Lead) rank() int      { return 0 }
func (Flusher) rank() int   { return 1 }
func (Giving) rank() int    { return 2 }
func (Editing) rank() int   { return 3 }
func (Filters) rank() int   { return 4 }
func (Changes) rank() int   { return 5 }
func (Scheduler) rank() int { return 6 }
func (Tree) rank() int      { return 7 }
func (View) rank() int      { return 8 }
func (Snapshots) rank() int { return 9 }
func (Leaf) rank() int      { return 10 }
