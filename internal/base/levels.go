package base

// NumLevels is how many levels the tree of a store has. Level 0 holds flushed runs,
// level NumLevels-1 the oldest data. Files state levels, so it is part of the format.
const NumLevels = 7
