import { Fault } from '../../src/api/error.ts';
import type { App } from '../../src/app.ts';
import type { Handlers } from '../bind.ts';

export const storageRoutes = ({ checkpoints, storage }: App): Pick<Handlers, 'getStorage' | 'collectGarbage'> => ({
  getStorage: (_input, { principal }) => storage.get(principal.organization_id),
  collectGarbage({ body }, { principal, tx }) {
    if (principal.credential !== 'session')
      throw new Fault('owner_only', 'This removes data of all organizations: it takes the local session.');
    return checkpoints.collect(tx, principal.organization_id, body.dry_run ?? false);
  },
});
