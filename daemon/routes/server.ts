import { apiVersion } from '../../src/api/server.ts';
import type { App } from '../../src/app.ts';
import { toPage } from '../../src/base/page.ts';
import { version } from '../../src/base/root.ts';
import type { Handlers } from '../bind.ts';

/** Lists that are not rows are paged by their place. */
const numbered = <T>(items: T[], after: number | null, limit: number) =>
  items.map((item, index) => ({ key: index + 1, item })).slice(after ?? 0, (after ?? 0) + limit + 1);

export const serverRoutes = ({
  access,
  credits,
  registry,
  models,
  sandbox,
}: App): Pick<Handlers, 'getMe' | 'listModels' | 'listHarnesses'> => ({
  getMe(_input, { principal }) {
    const found = sandbox.state();
    const state = found.available
      ? { available: true, level: found.isolation.level, reason: null, remedy: null }
      : { available: false, level: 'none' as const, reason: found.reason, remedy: found.remedy };
    return {
      ...access.describe(principal),
      credits: credits.get(principal.organization_id),
      server: { version, api_version: apiVersion, sandbox: state },
    };
  },

  async listHarnesses(_input, { paging }) {
    const page = paging();
    return toPage(numbered(await registry.list(), page.after, page.limit), page, ({ item }) => item);
  },

  async listModels(_input, { paging }) {
    const page = paging();
    return toPage(numbered(await models(), page.after, page.limit), page, ({ item }) => item);
  },
});
