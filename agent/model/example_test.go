package model_test

import (
	"fmt"
	"time"

	"github.com/actlog/actlog/agent/model"
)

// How long to wait before each of three more tries.
func ExamplePause() {
	err := &model.Error{Kind: model.KindRateLimit, Status: 429, RetryAfter: 5 * time.Second}
	for attempt := 2; attempt <= 4; attempt++ {
		pause, again := model.Pause(err, attempt)
		fmt.Println(attempt, pause, again)
	}
	_, again := model.Pause(&model.Error{Kind: model.KindContextLength}, 2)
	fmt.Println(again)

	// Output:
	// 2 5s true
	// 3 5s true
	// 4 8s true
	// false
}
