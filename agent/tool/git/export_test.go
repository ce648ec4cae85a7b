package git

// WatchSize is watchSize, for tests that have no pack of 512 MiB.
var WatchSize = watchSize
