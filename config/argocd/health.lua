-- The health of Bunsen's objects for Argo CD: GitSource, MachineConfigPool, BunsenStatus, Notification and
-- ProvisioningToken. docs/catalogue.md says where to put it.
local function because(status, message)
  return {status = status, message = message or ""}
end
local is = obj.status
if is == nil then
  return because("Progressing", "the controller has not seen it yet")
end
if is.observedGeneration ~= nil and obj.metadata.generation ~= nil and
    is.observedGeneration ~= obj.metadata.generation then
  return because("Progressing", "the controller has not seen the newest change yet")
end
local conditions = {}
for _, c in ipairs(is.conditions or {}) do
  conditions[c.type] = c
end
local ready, stalled, reconciling = conditions.Ready, conditions.Stalled, conditions.Reconciling
if obj.spec ~= nil and (obj.spec.suspend or obj.spec.paused) then
  return because("Suspended", (ready or stalled or {}).message)
end
if stalled ~= nil and stalled.status == "True" then
  return because("Degraded", stalled.message)
end
if reconciling ~= nil and reconciling.status == "True" then
  return because("Progressing", reconciling.message)
end
if ready ~= nil and ready.status ~= "True" then
  return because(ready.status == "False" and "Degraded" or "Progressing", ready.message)
end
return because("Healthy")
