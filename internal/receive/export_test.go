package receive

// MaxReceiving is how many messages of gRPC may arrive at once.
const MaxReceiving = maxReceiving
