import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.{ts,tsx}'],
    pool: 'forks',
    // Journeys start daemons and agents: more than one file at a time per core only makes them wait for each other.
    maxWorkers: 2,
    // Journeys watch real processes against the clock: on a machine that others use, too, one may be late once.
    retry: process.env.CI ? 1 : 0,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default', './test/kit/closing-line.ts'],
  },
});
