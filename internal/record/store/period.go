package store

import (
	"strconv"
	"strings"
	"time"
)

// PeriodStart is the first day of the period that a day lies in. Periods of a week begin on
// Mondays. The statement that writes plans counts in the same way.
func PeriodStart(day time.Time, days int) time.Time {
	epoch := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	since := int(day.Sub(epoch).Hours() / 24)
	return day.AddDate(0, 0, -(since % days))
}

// likelyPartition is the period of the time that an id of ours begins with; for other ids, the
// present period.
func likelyPartition(id string, now time.Time, periodDays int) time.Time {
	if _, v7, _ := strings.Cut(id, "-"); len(v7) >= 36 && v7[8] == '-' && v7[14] == '7' {
		if ms, err := strconv.ParseInt(v7[:8]+v7[9:13], 16, 64); err == nil {
			now = time.UnixMilli(ms)
		}
	}
	return PeriodStart(now.UTC().Truncate(24*time.Hour), periodDays)
}
