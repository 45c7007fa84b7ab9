import type { Reporter, TestModule } from 'vitest/node';

/** Ends a run of the tests with one plain line, `N passed, N failed, N skipped`, taken from the results. */
export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0 };
    for (const module of modules) {
      const before = count.passed + count.failed + count.skipped;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== 'pending') count[state] += 1;
      }
      // A file that cannot be loaded has no tests, and is a failure all the same.
      if (!module.ok() && before === count.passed + count.failed + count.skipped) count.failed += 1;
    }
    process.on('exit', () =>
      process.stdout.write(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped\n`),
    );
  }
}
