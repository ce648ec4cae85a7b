package upkeep

// Idle returns an Upkeep that does nothing by itself.
var Idle = newUpkeep

// Parts of the upkeep.
var (
	DropDetail     = (*Upkeep).dropDetail
	DeleteOutdated = (*Upkeep).deleteOutdated
	InterruptDead  = (*Upkeep).interruptDead
	SweepChanges   = (*Upkeep).sweepChanges
	DropSpans      = (*Upkeep).dropSpans
)

// PartitionedTables hold the detail.
var PartitionedTables = partitionedTables

// PartitionsAhead is how many periods beyond the present one have partitions.
const PartitionsAhead = partitionsAhead
