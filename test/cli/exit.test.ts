import { describe, expect, it } from 'vitest';
import { exitOfFault, exitOfRun, report, Stop } from '../../cli/exit.ts';
import { Unreachable } from '../../src/api/client.ts';
import { type ErrorCode, failures, Fault } from '../../src/api/error.ts';

describe('exit codes of faults', () => {
  const byStatus: Record<number, number[]> = {
    400: [2],
    401: [4],
    402: [6],
    403: [4],
    404: [3],
    405: [2],
    409: [7, 4],
    410: [7],
    412: [7],
    413: [2],
    415: [2],
    416: [2],
    421: [4],
    422: [7],
    428: [7],
    429: [1],
    500: [1],
    503: [8],
    507: [1],
  };

  it.each(Object.entries(failures))('%s', (code, { status }) => {
    expect(byStatus[status]).toContain(exitOfFault(code as ErrorCode));
  });
});

describe('exit codes of runs', () => {
  it.each([
    ['completed', 'end_turn', false, 0],
    ['failed', 'harness_failed', false, 1],
    ['failed', 'time_limit', false, 6],
    ['failed', 'cost_limit', false, 6],
    ['failed', 'credits_exhausted', false, 6],
    ['failed', 'turn_limit', false, 6],
    ['failed', 'input_rejected', false, 5],
    ['failed', 'input_expired', false, 5],
    ['cancelled', 'cancelled', true, 130],
    ['cancelled', 'cancelled', false, 1],
    ['completed', 'end_turn', true, 0],
  ] as const)('%s by %s, cancelled by us: %s', (status, stop_reason, byUs, code) => {
    expect(exitOfRun({ status, stop_reason }, byUs)).toBe(code);
  });
});

describe('report', () => {
  it('gives cause, remedy and request id', () => {
    const fault = new Fault('sandbox_unavailable', 'There is none.', {
      requestId: 'req_1',
      details: { remedy: 'install bubblewrap' },
    });
    expect(report(fault)).toEqual({
      message: 'There is none.',
      remedy: expect.stringContaining('--sandbox none') as string,
      requestId: 'req_1',
      code: 4,
    });
    expect(report(new Fault('not_found', 'No.')).remedy).toContain('agentctl ps');
  });

  it('names what is wrong in the request', () => {
    const fault = new Fault('invalid_request', 'It does not fit.', {
      details: { errors: [{ path: '/prompt', message: 'too long' }] },
    });
    expect(report(fault)).toMatchObject({ message: 'It does not fit.\n  /prompt: too long', code: 2 });
  });

  it('knows its own failures and a daemon that is away', () => {
    expect(report(new Stop(3, 'No such thing.', 'look'))).toMatchObject({ code: 3, remedy: 'look' });
    expect(report(new Unreachable('http://x', new Error('refused')))).toMatchObject({
      code: 8,
      remedy: expect.stringContaining('agentctl up') as string,
    });
    expect(report('odd')).toMatchObject({ message: 'odd', code: 1 });
  });
});
