import type { Operation } from '../../src/api/operations.ts';
import { operationStatuses, operationTypes } from '../../src/api/operations.ts';
import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';
import { readList } from '../filters.ts';

const hasEnded = ({ status }: Operation) => status !== 'queued' && status !== 'running';

export const operationRoutes = ({ operations, clock }: App): Pick<Handlers, 'listOperations' | 'getOperation'> => ({
  listOperations({ query }, { principal, paging }) {
    const status = readList('status', query.status, operationStatuses);
    const type = readList('type', query.type, operationTypes);
    return operations.list(
      principal.organization_id,
      principal.scopes,
      {
        ...(status ? { status } : {}),
        ...(type ? { type } : {}),
        ...(query.resource_id ? { resource: query.resource_id } : {}),
      },
      paging(),
    );
  },

  async getOperation({ path, query }, { principal, signal }) {
    const get = () => operations.get(principal.organization_id, principal.scopes, path.operation_id);
    const first = get();
    if (!query.wait || hasEnded(first)) return first;
    await new Promise<void>((resolve) => {
      const stop = () => {
        unfollow();
        cancel();
        signal.removeEventListener('abort', stop);
        resolve();
      };
      const unfollow = operations.follow(path.operation_id, () => hasEnded(get()) && stop());
      const cancel = clock.timer(query.wait! * 1000, stop);
      signal.addEventListener('abort', stop);
    });
    return get();
  },
});
