package base

// NumLevels is the number of levels of a store's tree. Level 0 holds
// flushed runs, and level NumLevels-1 holds the oldest data. Files
// contain level numbers, so NumLevels is part of the file format.
const NumLevels = 7
